"""Addresses of the pages that combine several apps; `root_urlpatterns` are outside any cluster."""

from django.urls import path

from console.overview import jump, views

root_urlpatterns = [
    path("", views.home, name="home"),
    path("clusters", views.clusters, name="clusters"),
    path("fleet", views.fleet_page, name="fleet"),
]
urlpatterns = [
    path("", views.overview, name="overview"),
    path("jump", jump.jump, name="jump"),
]
