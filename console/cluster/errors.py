"""Refusals of the cluster services. ``field`` names the form field at fault, "" for none."""

import math

from console.text import Text


class ClusterError(Exception):
    """Base; the text states what is wrong and what to do."""

    code = "cluster_error"
    field = ""


class ClusterNameInvalid(ClusterError):
    code, field = "cluster_name_invalid", "name"


class ClusterNameTaken(ClusterError):
    code, field = "cluster_name_taken", "name"


class ClusterSettingInvalid(ClusterError):
    code = "cluster_setting_invalid"


class NameServerAddressInvalid(ClusterError):
    code, field = "name_server_address_invalid", "namesrv_addrs"


class NameServerUnreachable(ClusterError):
    """The address is well formed, but no name server with brokers answers there."""

    code, field = "name_server_unreachable", "namesrv_addrs"


class ConnectionSettingInvalid(ClusterError):
    """A setting of TLS or of access keys cannot be used; ``field`` names it."""

    code = "connection_setting_invalid"

    def __init__(self, text: Text, field: str) -> None:
        self.field = field
        super().__init__(text)


class ConnectionRefused(ClusterError):
    """Name servers answer, but TLS or keys are refused: by which address, and why."""

    code = "connection_refused"


class TooManyProbes(ClusterError):
    """More addresses were probed in a minute than allowed; retry after ``retry_after_s`` seconds."""

    code, field = "too_many_probes", "namesrv_addrs"

    def __init__(self, wait_s: float) -> None:
        self.retry_after_s = math.ceil(wait_s)
        super().__init__(
            Text("Too many addresses were tried. Try again in %(number)s seconds.", number=self.retry_after_s)
        )


class ClusterIsEmbedded(ClusterError):
    """The embedded cluster cannot be removed: it is part of the installation."""

    code = "cluster_is_embedded"
