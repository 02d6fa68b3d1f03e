"""Addresses of a group's configuration. A group may be called anything: what is no group stands beside
`groups/`.
"""

from django.urls import path

from console.group import settings_views

urlpatterns = [
    path("new-group", settings_views.create, name="group-create"),
    path("groups/<str:group>/settings", settings_views.settings, name="group-settings"),
    path("groups/<str:group>/delete", settings_views.delete, name="group-delete"),
    path("groups/<str:group>/release", settings_views.release, name="group-release"),
]
