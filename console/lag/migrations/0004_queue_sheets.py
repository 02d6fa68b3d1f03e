"""Queues are kept as sheets instead of a row each. The rows are a cache: the next round fills the sheets."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('lag', '0003_headline_figures'),
    ]

    operations = [
        migrations.CreateModel(
            name='QueueSheet',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('cluster', models.CharField(max_length=64)),
                ('number', models.IntegerField()),
                ('data', models.BinaryField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('cluster', 'number'), name='queue_sheet_key')],
            },
        ),
        migrations.CreateModel(
            name='TopicQueueSheet',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('cluster', models.CharField(max_length=64)),
                ('number', models.IntegerField()),
                ('data', models.BinaryField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('cluster', 'number'), name='topic_queue_sheet_key')],
            },
        ),
        migrations.DeleteModel(
            name='QueueRow',
        ),
        migrations.DeleteModel(
            name='TopicQueueRow',
        ),
        migrations.AddField(
            model_name='topicrow',
            name='readers',
            field=models.IntegerField(help_text='consumer groups that have offsets on it', null=True),
        ),
    ]
