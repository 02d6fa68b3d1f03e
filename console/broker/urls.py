"""Addresses of the pages of brokers and name servers."""

from django.urls import path

from console.broker import views
from console.broker.acl import views as acl_views

urlpatterns = [
    path("brokers", views.brokers, name="brokers"),
    path("brokers/<str:broker>", views.broker, name="broker"),
    path("brokers/<str:broker>/config", views.change_config, name="broker-config"),
    path("brokers/<str:broker>/drain", views.drain, name="broker-drain"),
    path("name-servers", views.name_servers, name="name-servers"),
    path("acl", acl_views.broker_acl, name="broker-acl"),
    path("acl/white-addresses", acl_views.white_addresses, name="acl-white-addresses"),
    path("acl/<str:what>", acl_views.acl_change, name="acl-change"),
]
