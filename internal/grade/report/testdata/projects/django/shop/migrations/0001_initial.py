from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = []
    operations = [migrations.CreateModel("Item", [
        ("id", models.AutoField(primary_key=True, serialize=False)),
        ("name", models.CharField(max_length=20, unique=True)),
    ])]
