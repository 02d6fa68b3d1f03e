"""Log segments have an owner and may be uploaded; files are made under a lease; a cluster's rounds stay on one host."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("lag", "0010_episodes")]

    operations = [
        migrations.CreateModel(
            "HistoryLease",
            [
                ("cluster", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("owner", models.CharField(blank=True, default="", max_length=64)),
                ("host", models.CharField(blank=True, default="", max_length=64)),
                ("until_ms", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.AddField(
            "historyfile",
            "host",
            models.CharField(
                blank=True, default="", help_text="whose log it is; chunks are no host's", max_length=64
            ),
        ),
        migrations.AddField(
            "historyfile",
            "uploaded_at_ms",
            models.BigIntegerField(
                default=0, help_text="since then a log segment lies under HISTORY_URL; 0: on its host only"
            ),
        ),
        migrations.AlterField(
            "historyfile",
            "state",
            models.CharField(
                choices=[
                    ("writing", "Writing"),
                    ("live", "Live"),
                    ("superseded", "Superseded"),
                    ("quarantined", "Quarantined"),
                    ("deleted", "Deleted"),
                ],
                default="live",
                max_length=16,
            ),
        ),
        migrations.AddField(
            "collectorlease", "host", models.CharField(blank=True, default="", max_length=64)
        ),
    ]
