"""Addresses of the message browser and of one message."""

from django.urls import path

from console.message import views

urlpatterns = [
    path("messages", views.messages, name="messages"),
    path("messages/<str:message_id>", views.message, name="message"),
]
