"""When each group's topic kept its promise in the last days: what burn rates are made of."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("lag", "0011_several_hosts")]

    operations = [
        migrations.CreateModel(
            "PromiseCourse",
            [
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("cluster", models.CharField(max_length=64)),
                ("group", models.CharField(blank=True, default="", max_length=255)),
                ("topic", models.CharField(blank=True, default="", max_length=255)),
                ("changes", models.JSONField(default=list)),
                ("promises", models.JSONField(default=dict)),
                ("read_at_ms", models.BigIntegerField(default=0)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=["cluster", "group", "topic"], name="promise_course_key"
                    )
                ]
            },
        ),
    ]
