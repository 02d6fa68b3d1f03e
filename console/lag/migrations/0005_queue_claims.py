from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('lag', '0004_client_position'),
    ]

    operations = [
        migrations.AddField(
            model_name='queueowner',
            name='is_claim',
            field=models.BooleanField(default=False),
        ),
        migrations.RemoveConstraint(
            model_name='queueowner',
            name='queue_owner_now',
        ),
        migrations.AddConstraint(
            model_name='queueowner',
            constraint=models.UniqueConstraint(condition=models.Q(('is_claim', False), ('to_ms__isnull', True)), fields=('cluster', 'group', 'topic', 'broker_name', 'queue_id'), name='queue_owner_now'),
        ),
    ]
