"""URLs of the message browser and of one message."""

from django.urls import path

from console.message import change_views, views

urlpatterns = [
    path("messages", views.messages, name="messages"),
    path("messages/export", change_views.export_messages, name="message-export"),
    path("messages/compare", views.compare_messages, name="message-compare"),
    path("messages/save", change_views.save, name="message-save"),
    path("messages/send", change_views.send, name="message-send"),
    path("messages/schema", change_views.schema, name="message-schema"),
    path("messages/<str:message_id>", views.message, name="message"),
]
