"""By which version of a promise a row was judged."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('report', '0011_time_zones'),
    ]

    operations = [
        migrations.AddField(
            model_name='lagrow',
            name='slo_from_ms',
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='lagrow',
            name='slo_target',
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name='lagrow',
            name='slo_versions',
            field=models.IntegerField(null=True),
        ),
    ]
