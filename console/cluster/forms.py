"""The forms that add a cluster and change how it is reached. A secret that was typed is never shown again."""

from django import forms
from django.core.validators import RegexValidator

from console.cluster.connection_change import ConnectionChange
from console.cluster.errors import ClusterError
from console.cluster.models import CLUSTER_NAME, Cluster
from console.cluster.services import checked_addrs
from console.text import Text, text_of


class ConnectionFields(forms.Form):
    """Name servers, TLS and access keys, as far as a person types them; the service checks them."""

    namesrv_addrs = forms.CharField(
        label=Text("Name server address"),
        max_length=1000,
        help_text=Text("host:port, for example 10.0.0.5:9876; several separated by semicolons."),
    )
    uses_tls = forms.BooleanField(label=Text("Connect with TLS"), required=False)
    tls_checks_host_name = forms.BooleanField(
        label=Text("Check that the certificate is for this address"), required=False, initial=True
    )
    tls_ca = forms.CharField(
        label=Text("CA certificates (PEM)"),
        required=False,
        widget=forms.Textarea,
        help_text=Text("Leave empty to trust the CAs of this system."),
    )
    tls_certificate = forms.CharField(
        label=Text("Client certificate (PEM)"),
        required=False,
        widget=forms.Textarea,
        help_text=Text("Only if the brokers require one."),
    )
    tls_key = forms.CharField(
        label=Text("Key of the client certificate (PEM)"), required=False, widget=forms.Textarea
    )
    access_key = forms.CharField(
        label=Text("Access key"),
        required=False,
        help_text=Text("accessKey of plain_acl.yml (4.x), or the name of a user (5.x)."),
    )
    secret_key = forms.CharField(label=Text("Secret key"), required=False, widget=forms.PasswordInput)
    security_token = forms.CharField(label=Text("Security token"), required=False, widget=forms.PasswordInput)

    def clean_namesrv_addrs(self) -> str:
        """Return the addresses as they are stored, so that each wrong field is marked at the first try."""
        try:
            return checked_addrs(self.cleaned_data["namesrv_addrs"])
        except ClusterError as refusal:
            raise forms.ValidationError(text_of(refusal)) from refusal

    def change(self, stored: Cluster) -> ConnectionChange:
        """Return what differs from a row. A secret that was left empty stays."""
        typed = self.cleaned_data
        plain = {
            name: typed[name] for name in ("namesrv_addrs", "uses_tls", "tls_checks_host_name", "access_key")
        }
        plain |= {name: _lines(typed[name]) for name in ("tls_ca", "tls_certificate")}
        return ConnectionChange(
            **{name: value for name, value in plain.items() if value != _shown(stored, name)},
            tls_key=_lines(typed["tls_key"]) or None,
            secret_key=typed["secret_key"] or None,
            security_token=typed["security_token"] or None,
        )


class AddClusterForm(ConnectionFields):
    """A name and one or more name servers; the service checks whether they answer."""

    name = forms.CharField(
        label=Text("Name"),
        max_length=63,
        help_text=Text("Part of page addresses: lower-case letters, digits and dashes."),
        validators=[RegexValidator(CLUSTER_NAME, Text("Lower-case letters, digits and dashes, at most 63."))],
    )
    is_production = forms.BooleanField(
        label=Text("Production: mark its pages with a colour band"), required=False
    )


class ConnectionForm(ConnectionFields):
    """How a cluster is reached, as it is stored. To empty the access key or the certificate removes their secrets."""

    @classmethod
    def of(cls, cluster: Cluster) -> "ConnectionForm":
        shown = {name: _shown(cluster, name) for name in cls.base_fields if hasattr(cluster, name)}
        return cls(initial=shown)


def _shown(cluster: Cluster, name: str) -> str | bool:
    value: str | bool = getattr(cluster, name)
    return _lines(value) if isinstance(value, str) and "BEGIN" in value else value


def _lines(text: str) -> str:
    """Return PEM text with the line ends of files: a browser sends others."""
    return "\n".join(text.split("\r\n")).strip()
