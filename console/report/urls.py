"""Addresses of the report pages."""

from django.urls import path

from console.report import group_views, line_views, views

urlpatterns = [
    path("reports", line_views.reports, name="reports"),
    path("reports/groups/<str:group>", group_views.group, name="group-report"),
    path("reports/<str:job>", views.report, name="report"),
    path("reports/<str:job>/run", views.run, name="report-run"),
    path("reports/<str:job>/csv", views.download, name="report-download"),
]
