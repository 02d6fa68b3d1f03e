"""Every address of the site: sign-in and clusters at the root, a cluster's pages under its name, REST.

``/healthz``, ``/readyz``, ``/metrics`` and ``/ws/live`` are answered in ``console.asgi``, before Django.
"""

from django.contrib import admin
from django.urls import include, path

from console.access import urls as access_urls
from console.access.admin import admin_sign_in
from console.demo import urls as demo_urls
from console.overview import urls as overview_urls
from console.text import language

handler400 = "console.web.security.bad_request"
handler403 = "console.cluster.admission.permission_denied"
handler404 = "console.cluster.admission.page_not_found"
handler500 = "console.web.unavailable.server_error"
urlpatterns = [
    path("", include(access_urls)),
    path("", include(overview_urls.root_urlpatterns)),
    path("", include(demo_urls.root_urlpatterns)),
    path("c/<str:cluster>/", include(overview_urls)),
    path("c/<str:cluster>/", include("console.cluster.urls")),
    path("c/<str:cluster>/", include("console.broker.urls")),
    path("c/<str:cluster>/", include("console.topic.urls")),
    path("c/<str:cluster>/", include("console.group.urls")),
    path("c/<str:cluster>/", include("console.rebalance.urls")),
    path("c/<str:cluster>/", include("console.message.urls")),
    path("c/<str:cluster>/", include("console.deadletter.urls")),
    path("c/<str:cluster>/", include("console.operation.urls")),
    path("c/<str:cluster>/", include("console.report.urls")),
    path("c/<str:cluster>/", include(demo_urls)),
    path("language", language.choose, name="language"),
    path("language/<str:code>.js", language.script_words, name="script-words"),
    path("api/", include("api.urls")),
    path("admin/login/", admin_sign_in),
    path("admin/", admin.site.urls),
]
