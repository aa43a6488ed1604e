int dummy_entropy;
