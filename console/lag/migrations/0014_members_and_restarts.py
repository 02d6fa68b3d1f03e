"""Who joined, left or restarted; when a broker's process began."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('lag', '0013_queue_owners'),
    ]

    operations = [
        migrations.AddField(
            model_name='brokerrow',
            name='boot_ms',
            field=models.BigIntegerField(help_text='when its process began, by its own clock; kept while it is silent', null=True),
        ),
        migrations.AddField(
            model_name='lagevent',
            name='members',
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.AlterField(
            model_name='lagevent',
            name='kind',
            field=models.CharField(choices=[('REWIND', 'Rewind'), ('SKIPPED', 'Skipped'), ('LOST', 'Lost'), ('RECREATED', 'Recreated'), ('HEAD_REGRESSION', 'Head Regression'), ('MEMBERS', 'Members'), ('BROKER_RESTART', 'Broker Restart')], max_length=16),
        ),
    ]
