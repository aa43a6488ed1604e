int dummy_golden;
