int dummy_damage;
