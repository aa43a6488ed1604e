int dummy_fields;
