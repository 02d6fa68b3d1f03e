"""Addresses of the dead-letter pages."""

from django.urls import path

from console.deadletter import views

urlpatterns = [
    path("dead-letters", views.dead_letters, name="dead-letters"),
    path("dead-letters/<str:group>", views.dead_letter_group, name="dead-letter-group"),
]
