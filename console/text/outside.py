"""Ids of the texts that packages outside the console make (`console.text.value.Worded`), for its catalogue."""

from django.utils.translation import gettext_noop as _
from django.utils.translation import ngettext_lazy

IDS = (
    # brokerd.remoting.message.names
    _("Use only letters, digits, %% | - and _."),
    _("Enter a name."),
    _("The name has %(number)s characters; at most %(most)s."),
    # consumers.errors
    _("%(address)s is not available: %(why)s"),
    _("%(address)s did not answer within %(seconds)s s"),
    _("%(number)s requests to %(address)s are already waiting for an answer"),
    _("no queue of topic %(topic)s to %(purpose)s is registered with the name servers"),
    _("message to %(topic)s not sent in %(number)s attempts: %(why)s"),
    # consumers.client
    _("cannot connect: %(why)s"),
    _("connection lost: %(why)s"),
    _("it closed the connection"),
    _("it sent a bad frame: %(why)s"),
    _("it was silent for %(number)s s while requests waited"),
    _("no connection within %(number)s ms"),
    _("no route names an address of broker %(name)s"),
    _("no route names this address any more"),
    _("not connected"),
    _("the address is not host:port"),
    _("the route names no broker address"),
    _("this client is closing"),
)
# Errors of Django's forms and passwords, in words of our own; in English: locale/en.
OF_DJANGO = (
    ngettext_lazy(
        "Ensure this value has at most %(limit_value)d character (it has %(show_value)d).",
        "Ensure this value has at most %(limit_value)d characters (it has %(show_value)d).",
    ),
    ngettext_lazy(
        "This password is too short. It must contain at least %d character.",
        "This password is too short. It must contain at least %d characters.",
    ),
    _("Null characters are not allowed."),
    _("The password is too similar to the %(verbose_name)s."),
    _("Ensure this value is greater than or equal to %(limit_value)s."),
    _("Ensure this value is less than or equal to %(limit_value)s."),
    _("Select a valid choice. %(value)s is not one of the available choices."),
)
