"""URLs of plans and jobs."""

from django.urls import path

from console.operation import views

urlpatterns = [
    path("operations", views.operations, name="operations"),
    path("operations/<str:job_id>", views.job, name="job"),
    path("operations/<str:job_id>/<str:action>", views.job_control, name="job-control"),
    path("plans/<str:plan_id>", views.plan, name="plan"),
    path("plans/<str:plan_id>/apply", views.plan_apply, name="plan-apply"),
    path("plans/<str:plan_id>/<str:action>", views.plan_action, name="plan-action"),
]
