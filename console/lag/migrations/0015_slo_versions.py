"""Promises are versions: a change begins one and leaves the past as it was judged."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('lag', '0014_members_and_restarts'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='groupslo',
            name='group_slo_one_per_group',
        ),
        migrations.RemoveField(
            model_name='promisecourse',
            name='promises',
        ),
        migrations.AddField(
            model_name='episode',
            name='slo_from_ms',
            field=models.BigIntegerField(default=0, help_text='since when it is in force; 0: always'),
        ),
        migrations.AddField(
            model_name='groupslo',
            name='from_ms',
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='groupslo',
            name='set_by',
            field=models.CharField(blank=True, default='', max_length=150),
        ),
        migrations.AlterField(
            model_name='groupslo',
            name='slo_ms',
            field=models.BigIntegerField(null=True),
        ),
        migrations.AlterField(
            model_name='groupslo',
            name='target',
            field=models.FloatField(null=True),
        ),
        migrations.AddConstraint(
            model_name='groupslo',
            constraint=models.UniqueConstraint(fields=('cluster', 'group', 'from_ms'), name='slo_version'),
        ),
    ]
