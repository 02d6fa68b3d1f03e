from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('lag', '0005_queue_claims'),
    ]

    operations = [
        migrations.AddField(
            model_name='clientrow',
            name='proxy',
            field=models.CharField(blank=True, default='', help_text='the RocketMQ 5 proxy that it is connected through; empty: it is connected to brokers', max_length=255),
        ),
    ]
