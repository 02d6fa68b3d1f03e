"""URLs of the Rebalance pages."""

from django.urls import path

from console.rebalance import views

urlpatterns = [
    path("rebalance", views.groups, name="rebalance"),
    path("rebalance/<str:group>", views.group, name="rebalance-group"),
]
