"""URLs of the report pages."""

from django.urls import path, re_path

from console.report.pages import group_views, line_views, schedule_views, views

urlpatterns = [
    path("reports", line_views.reports, name="reports"),
    path("reports/groups/<str:group>", group_views.group, name="group-report"),
    path("reports/groups/<str:group>/slo", schedule_views.set_slo, name="group-slo"),
    path("reports/<str:job>", views.report, name="report"),
    path("reports/<str:job>/run", views.run, name="report-run"),
    path("reports/<str:job>/schedule", schedule_views.change, name="report-schedule"),
    re_path(r"^reports/(?P<job>[^/]+)/(?P<fmt>csv|parquet|html)$", views.download, name="report-download"),
]
