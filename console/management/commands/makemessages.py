"""`makemessages` that also extracts the ids of `Text(…)`."""

from django.core.management.commands import makemessages


class Command(makemessages.Command):
    xgettext_options = [*makemessages.Command.xgettext_options, "--keyword=Text"]
