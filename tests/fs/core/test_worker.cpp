// Stands in for `varve recognise-worker`.
#include "fs/formats/worker.h"

int main() { return varve::fs::recogniser_worker_main(3); }
