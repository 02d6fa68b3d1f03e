"""The form that adds a cluster."""

from django import forms
from django.core.validators import RegexValidator

from console.cluster.models import CLUSTER_NAME
from console.text import Text


class AddClusterForm(forms.Form):
    """A name and one or more name servers; the service checks whether they answer."""

    name = forms.CharField(
        label=Text("Name"),
        max_length=63,
        help_text=Text("Used in addresses: lower-case letters, digits and dashes."),
        validators=[RegexValidator(CLUSTER_NAME, Text("Lower-case letters, digits and dashes, at most 63."))],
    )
    namesrv_addrs = forms.CharField(
        label=Text("Name server address"),
        max_length=1000,
        help_text=Text("host:port, for example 10.0.0.5:9876; several separated by semicolons."),
    )
    is_production = forms.BooleanField(
        label=Text("Production: its pages are marked with a colour band"), required=False
    )
