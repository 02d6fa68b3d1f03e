"""URLs of the topic pages. Any name is a valid topic, so other pages are outside `topics/`."""

from django.urls import path

from console.topic import change_views, views

urlpatterns = [
    path("topics", views.topics, name="topics"),
    path("new-topic", change_views.create, name="topic-create"),
    path("topics/<str:topic>", views.topic, name="topic"),
    path("topics/<str:topic>/change", change_views.change, name="topic-change"),
    path("topics/<str:topic>/delete", change_views.delete, name="topic-delete"),
    path("topics/<str:topic>/release", change_views.release, name="topic-release"),
]
