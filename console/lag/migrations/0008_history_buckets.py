"""A large day of history is several files, each of some groups."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("lag", "0007_client_progress")]

    operations = [
        migrations.AddField(
            "historyfile",
            "bucket",
            models.IntegerField(default=0, help_text="which of the files of a large day"),
        ),
        migrations.AddField(
            "historyfile",
            "group_lo",
            models.CharField(
                help_text="the first group; null: any group may be in the file", max_length=255, null=True
            ),
        ),
        migrations.AddField(
            "historyfile",
            "group_hi",
            models.CharField(help_text="the last group", max_length=255, null=True),
        ),
    ]
