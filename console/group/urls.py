"""URLs of the group pages. Any name is a valid group, so other pages are outside `groups/`."""

from django.urls import path

from console.group import views
from console.group.broker_restore import views as broker_restore_views
from console.group.clients import views as client_views
from console.group.mode import views as mode_views
from console.group.offset_file import views as offset_file_views
from console.group.pause import views as pause_views
from console.group.queue_history import views as queue_history_views
from console.group.settings import views as settings_views

urlpatterns = [
    path("groups", views.groups, name="groups"),
    path("groups/<str:group>", views.group, name="group"),
    path("groups/<str:group>/clients/<path:client_id>", views.client, name="group-client"),
    path("groups/<str:group>/watch", views.watch, name="group-watch"),
    path("groups/<str:group>/offsets", views.offset_change, name="offset-change"),
    path("groups/<str:group>/offset-file", offset_file_views.offset_file, name="offset-file"),
    path("groups/<str:group>/offset-import", offset_file_views.offset_import, name="offset-import"),
    path("groups/<str:group>/queue-history", queue_history_views.page, name="queue-history"),
    path("groups/<str:group>/client-offsets", client_views.client_offsets, name="client-offsets"),
    path("brokers/<str:broker>/restore", broker_restore_views.page, name="broker-restore"),
    path("clients", client_views.clients, name="clients"),
    path("new-group", settings_views.create, name="group-create"),
    path("groups/<str:group>/settings", settings_views.settings, name="group-settings"),
    path("groups/<str:group>/delete", settings_views.delete, name="group-delete"),
    path("groups/<str:group>/pause", pause_views.pause, name="group-pause"),
    path("groups/<str:group>/resume", pause_views.resume, name="group-resume"),
    path("groups/<str:group>/mode", mode_views.mode, name="group-mode"),
    path("groups/<str:group>/release", settings_views.release, name="group-release"),
]
