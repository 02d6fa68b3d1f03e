"""Addresses of sign-in, passwords, tokens, chosen columns and the audit trail."""

from django.urls import path

from console.access import token_views, views

urlpatterns = [
    path("sign-in", views.sign_in, name="sign-in"),
    path("sign-in/<str:key>", views.sign_in_link, name="sign-in-link"),
    path("sign-out", views.sign_out, name="sign-out"),
    path("password", views.set_password, name="set-password"),
    path("columns/<slug:table>", views.columns, name="columns"),
    path("tokens", token_views.tokens, name="tokens"),
    path("tokens/<str:prefix>/revoke", token_views.revoke, name="token-revoke"),
    path("activity", views.activity, name="activity"),
]
