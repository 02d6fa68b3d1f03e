from django.db import migrations, models

import console.text.columns
from console.text import Text


class Migration(migrations.Migration):

    dependencies = [
        ('broker', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='brokersurvey',
            name='epoch',
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='brokersurvey',
            name='epoch_reason',
            field=console.text.columns.TextColumn(blank=True, default=Text()),
        ),
        migrations.AddField(
            model_name='brokersurvey',
            name='master_epoch',
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='brokersurvey',
            name='sync_set',
            field=models.JSONField(default=None, null=True),
        ),
        migrations.AddField(
            model_name='brokersurvey',
            name='sync_set_reason',
            field=console.text.columns.TextColumn(blank=True, default=Text()),
        ),
    ]
