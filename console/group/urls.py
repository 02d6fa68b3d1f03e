"""Addresses of the group pages."""

from django.urls import path

from console.group import views

urlpatterns = [
    path("groups", views.groups, name="groups"),
    path("groups/<str:group>", views.group, name="group"),
    path("groups/<str:group>/clients/<path:client_id>", views.client, name="group-client"),
    path("groups/<str:group>/watch", views.watch, name="group-watch"),
    path("groups/<str:group>/offsets", views.offset_change, name="offset-change"),
]
