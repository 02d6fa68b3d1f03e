import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """Rows of single queues leave the database. Those of before are not moved: running a report again over their time
    makes their files.
    """

    dependencies = [
        ("report", "0007_cost_of_lag"),
    ]

    operations = [
        migrations.CreateModel(
            name="QueueRowFile",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("path", models.CharField(max_length=512, unique=True)),
                ("job", models.CharField(max_length=32)),
                ("cluster", models.CharField(max_length=64)),
                ("window_start_ms", models.BigIntegerField()),
                ("window_end_ms", models.BigIntegerField()),
                ("group_first", models.CharField(max_length=255)),
                ("group_last", models.CharField(max_length=255)),
                ("rows", models.IntegerField()),
                ("bytes", models.BigIntegerField()),
                ("sha256", models.CharField(blank=True, default="", max_length=64)),
                ("code_version", models.CharField(blank=True, default="", max_length=40)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("writing", "Writing"),
                            ("live", "Live"),
                            ("superseded", "Superseded"),
                            ("damaged", "Damaged"),
                        ],
                        default="writing",
                        max_length=16,
                    ),
                ),
                ("created_at_ms", models.BigIntegerField()),
                ("superseded_at_ms", models.BigIntegerField(default=0)),
                ("reason", models.CharField(blank=True, default="", max_length=300)),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="queue_row_files",
                        to="report.reportrun",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["cluster", "job", "state", "-window_start_ms"], name="queue_row_file_window"
                    )
                ],
            },
        ),
        migrations.RunSQL("DELETE FROM report_lagrow WHERE grain = 'queue'", migrations.RunSQL.noop),
        migrations.AddConstraint(
            model_name="lagrow",
            constraint=models.CheckConstraint(condition=models.Q(("grain", "topic")), name="lag_row_queues_in_files"),
        ),
    ]
