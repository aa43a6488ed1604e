#include "fs/formats/worker.h"

int main() { return varve::fs::recogniser_worker_main(varve::fs::kWorkerDescriptor); }
