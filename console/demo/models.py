"""Who has closed the tour of the demo."""

from django.conf import settings
from django.db import models


class ClosedTour(models.Model):
    """A person who does not want to see the tour again, on any page."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")

    def __str__(self) -> str:
        return f"tour closed by {self.user}"
