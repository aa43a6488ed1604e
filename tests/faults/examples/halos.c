/* A simulation's density field and the halos in it, after the cosmology codes of fault studies.
 *   halos write FILE.h5    a density field of mean 1 with a few dozen clumps, plane by plane
 *   halos find FILE.h5     cells above 81.66 times the mean, joined over faces: count, cells and mass of each halo
 * Exit status 2: the file cannot be read; 3: it can, but holds no halo. */
#include <hdf5.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kEdge = 48, kCells = kEdge * kEdge * kEdge, kClumps = 24 };
static const double kThreshold = 81.66;
static const double kFar = 48; /* a clump adds less than half an ulp from here on */

static uint64_t state = 42;
static double uniform(void) {
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return (double)(state >> 11) / 9007199254740992.0;
}

static double distance_squared(const double* centre, int z, int y, int x) {
  const double place[3] = {z, y, x};
  double sum = 0;
  for (int axis = 0; axis < 3; ++axis) {
    double step = fabs(place[axis] - centre[axis]);
    step = step > kEdge / 2.0 ? kEdge - step : step;
    sum += step * step;
  }
  return sum;
}

static void make_field(float* field) {
  double centres[kClumps][3];
  double heights[kClumps];
  double total = 0;
  for (int i = 0; i < kClumps; ++i) {
    for (int axis = 0; axis < 3; ++axis) {
      centres[i][axis] = kEdge * uniform();
    }
    heights[i] = 200 * exp(1.5 * uniform());
  }
  for (int cell = 0; cell < kCells; ++cell) {
    double value = 0.3 + 0.2 * uniform();
    for (int i = 0; i < kClumps; ++i) {
      const double squared = distance_squared(centres[i], cell / kEdge / kEdge, cell / kEdge % kEdge, cell % kEdge);
      value += squared < kFar ? heights[i] * exp(-squared) : 0;
    }
    field[cell] = (float)value;
    total += value;
  }
  for (int cell = 0; cell < kCells; ++cell) {
    field[cell] = (float)(field[cell] * kCells / total);
  }
}

static int write_field(const char* path) {
  float* field = malloc(sizeof(float) * kCells);
  const hsize_t shape[3] = {kEdge, kEdge, kEdge};
  const hsize_t plane[3] = {1, kEdge, kEdge};
  if (field == NULL) {
    return 1;
  }
  make_field(field);
  const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(3, shape, NULL);
  const hid_t memory = H5Screate_simple(3, plane, NULL);
  const hid_t data = H5Dcreate2(file, "density", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  int good = file >= 0 && data >= 0;
  for (hsize_t z = 0; good && z < kEdge; ++z) {
    const hsize_t start[3] = {z, 0, 0};
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, plane, NULL);
    good = H5Dwrite(data, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, field + z * kEdge * kEdge) >= 0;
  }
  good = H5Dclose(data) >= 0 && good;
  H5Sclose(memory);
  H5Sclose(space);
  good = H5Fclose(file) >= 0 && good;
  free(field);
  return good ? 0 : 1;
}

/* Cells of the halo that `first` belongs to; they are marked as seen. */
static int walk(const float* field, double limit, char* seen, int* stack, int first, double* mass) {
  int cells = 0;
  int left = 1;
  stack[0] = first;
  seen[first] = 1;
  while (left > 0) {
    const int cell = stack[--left];
    const int steps[3] = {kEdge * kEdge, kEdge, 1};
    ++cells;
    *mass += field[cell];
    for (int axis = 0; axis < 3; ++axis) {
      const int at = cell / steps[axis] % kEdge;
      for (int side = -1; side <= 1; side += 2) {
        const int next = cell + ((at + side + kEdge) % kEdge - at) * steps[axis];
        if (!seen[next] && field[next] > limit) {
          seen[next] = 1;
          stack[left++] = next;
        }
      }
    }
  }
  return cells;
}

static int find_halos(const char* path) {
  float* field = calloc(kCells, sizeof(float));
  char* seen = calloc(kCells, 1);
  int* stack = malloc(sizeof(int) * kCells);
  const hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t data = file < 0 ? -1 : H5Dopen2(file, "density", H5P_DEFAULT);
  const hid_t space = data < 0 ? -1 : H5Dget_space(data);
  if (space < 0 || H5Sget_simple_extent_npoints(space) != kCells || field == NULL || seen == NULL || stack == NULL ||
      H5Dread(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, field) < 0) {
    fprintf(stderr, "halos: %s cannot be read\n", path);
    return 2;
  }
  double mean = 0;
  int halos = 0;
  for (int cell = 0; cell < kCells; ++cell) {
    mean += field[cell] / kCells;
  }
  for (int cell = 0; cell < kCells; ++cell) {
    if (!seen[cell] && field[cell] > kThreshold * mean) {
      double mass = 0;
      const int cells = walk(field, kThreshold * mean, seen, stack, cell, &mass);
      printf("%d %d %.6g\n", ++halos, cells, mass);
    }
  }
  printf("halos %d\n", halos);
  return halos == 0 ? 3 : 0;
}

int main(int count, char** words) {
  if (count == 3 && strcmp(words[1], "write") == 0) {
    return write_field(words[2]);
  }
  if (count == 3 && strcmp(words[1], "find") == 0) {
    return find_halos(words[2]);
  }
  fprintf(stderr, "use: halos write|find FILE.h5\n");
  return 1;
}
