"""Addresses of the topic pages."""

from django.urls import path

from console.topic import views

urlpatterns = [
    path("topics", views.topics, name="topics"),
    path("topics/<str:topic>", views.topic, name="topic"),
]
