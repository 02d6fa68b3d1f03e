"""What is typed to add a cluster."""

from django import forms
from django.core.validators import RegexValidator

from console.cluster.models import CLUSTER_NAME


class AddClusterForm(forms.Form):
    """A name for addresses and one or more name servers; whether they answer is the service's question."""

    name = forms.CharField(
        label="Name",
        max_length=63,
        help_text="Stands in addresses: lower-case letters, digits and dashes.",
        validators=[RegexValidator(CLUSTER_NAME, "Lower-case letters, digits and dashes, at most 63.")],
    )
    namesrv_addrs = forms.CharField(
        label="Name server address",
        max_length=1000,
        help_text="host:port, for example 10.0.0.5:9876; several separated by semicolons.",
    )
    is_production = forms.BooleanField(label="Production: pages carry a colour band", required=False)
