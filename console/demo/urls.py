"""Addresses of the demo's actions; `root_urlpatterns` are outside any cluster."""

from django.urls import path

from console.demo import views

root_urlpatterns = [path("demo/tour/close", views.close_tour, name="tour-close")]
urlpatterns = [
    path("demo/broker", views.switch_broker, name="demo-broker"),
    path("demo/week/delete", views.delete_week, name="demo-week-delete"),
]
