"""Which member of a group owned which queue, from when to when."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("lag", "0012_promise_courses")]

    operations = [
        migrations.CreateModel(
            "QueueOwner",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("cluster", models.CharField(max_length=64)),
                ("group", models.CharField(max_length=255)),
                ("topic", models.CharField(max_length=255)),
                ("broker_name", models.CharField(max_length=255)),
                ("queue_id", models.IntegerField()),
                ("client_id", models.CharField(max_length=255)),
                ("host", models.CharField(blank=True, default="", max_length=255)),
                ("from_ms", models.BigIntegerField()),
                ("to_ms", models.BigIntegerField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["cluster", "group", "from_ms"], name="queue_owner_window"),
                    models.Index(fields=["to_ms"], name="queue_owner_age"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("to_ms__isnull", True)),
                        fields=("cluster", "group", "topic", "broker_name", "queue_id"),
                        name="queue_owner_now",
                    )
                ],
            },
        ),
    ]
