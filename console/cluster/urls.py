"""Addresses of a cluster's settings."""

from django.urls import path

from console.cluster import views

urlpatterns = [path("connection", views.connection, name="connection")]
