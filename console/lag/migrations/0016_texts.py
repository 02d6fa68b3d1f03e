from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("lag", "0015_slo_versions")]

    operations = [
        migrations.AlterField("episode", "reset_by", models.TextField(blank=True, default="")),
    ]
