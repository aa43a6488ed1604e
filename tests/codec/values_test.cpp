int dummy_values;
