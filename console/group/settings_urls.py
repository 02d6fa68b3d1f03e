"""Addresses of a group's configuration and of what it may read. A group may be called anything: what is no group
stands beside `groups/`.
"""

from django.urls import path

from console.group import mode_views, pause_views, settings_views

urlpatterns = [
    path("new-group", settings_views.create, name="group-create"),
    path("groups/<str:group>/settings", settings_views.settings, name="group-settings"),
    path("groups/<str:group>/delete", settings_views.delete, name="group-delete"),
    path("groups/<str:group>/pause", pause_views.pause, name="group-pause"),
    path("groups/<str:group>/resume", pause_views.resume, name="group-resume"),
    path("groups/<str:group>/mode", mode_views.mode, name="group-mode"),
    path("groups/<str:group>/release", settings_views.release, name="group-release"),
]
