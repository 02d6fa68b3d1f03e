"""URLs of the dead-letter pages."""

from django.urls import path

from console.deadletter import views

urlpatterns = [
    path("dead-letters", views.dead_letters, name="dead-letters"),
    path("dead-letters/<str:group>", views.dead_letter_group, name="dead-letter-group"),
    path("dead-letters/<str:group>/readable", views.allow_reading, name="dead-letter-readable"),
    path("dead-letters/<str:group>/export", views.export, name="dead-letter-export"),
    path("dead-letters/<str:group>/ledger.csv", views.ledger_export, name="dead-letter-ledger"),
]
