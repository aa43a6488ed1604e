/* Molecular dynamics: a Lennard-Jones fluid by the velocity Verlet method, with a text log and HDF5 checkpoints.
 *   particles start STEPS      from a lattice; appends to energy.txt, writes state.h5
 *   particles go-on STEPS      from state.h5; appends, writes state.h5
 *   particles mean             the mean total and kinetic energy of energy.txt's second half
 * Exit status 2: a file cannot be read; 4: the total energy is not conserved. */
#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kSide = 6, kAtoms = kSide * kSide * kSide, kEvery = 5 };
static const double kBox = kSide * 1.12;
static const double kStep = 0.004;
static const double kCut = 2.5;

typedef struct {
  double place[kAtoms][3], speed[kAtoms][3], force[kAtoms][3];
  double potential;
  int step;
} Fluid;

static void find_forces(Fluid* fluid) {
  memset(fluid->force, 0, sizeof fluid->force);
  fluid->potential = 0;
  for (int i = 0; i < kAtoms; ++i) {
    for (int j = i + 1; j < kAtoms; ++j) {
      double apart[3];
      double squared = 0;
      for (int axis = 0; axis < 3; ++axis) {
        apart[axis] = fluid->place[i][axis] - fluid->place[j][axis];
        apart[axis] -= kBox * rint(apart[axis] / kBox);
        squared += apart[axis] * apart[axis];
      }
      if (squared < kCut * kCut) {
        const double six = 1 / (squared * squared * squared);
        const double cut_six = pow(kCut, -6);
        const double pull = 24 * (2 * six * six - six) / squared;
        fluid->potential += 4 * (six * six - six) - 4 * (cut_six * cut_six - cut_six);
        for (int axis = 0; axis < 3; ++axis) {
          fluid->force[i][axis] += pull * apart[axis];
          fluid->force[j][axis] -= pull * apart[axis];
        }
      }
    }
  }
}

static double kinetic(const Fluid* fluid) {
  double sum = 0;
  for (int i = 0; i < kAtoms; ++i) {
    for (int axis = 0; axis < 3; ++axis) {
      sum += fluid->speed[i][axis] * fluid->speed[i][axis] / 2;
    }
  }
  return sum;
}

static void make(Fluid* fluid) {
  unsigned state = 7;
  memset(fluid, 0, sizeof *fluid);
  for (int i = 0; i < kAtoms; ++i) {
    const int cell[3] = {i / kSide / kSide, i / kSide % kSide, i % kSide};
    for (int axis = 0; axis < 3; ++axis) {
      state = state * 1664525U + 1013904223U;
      fluid->place[i][axis] = (cell[axis] + 0.5) * kBox / kSide;
      fluid->speed[i][axis] = (double)(state >> 8) / 16777216.0 * 3 - 1.5;
    }
  }
}

/* Writes (or, if `load` is not 0, reads) the state. */
static int transfer(Fluid* fluid, int load) {
  const hsize_t shape[2] = {kAtoms, 3};
  const char* const names[] = {"place", "speed"};
  double(*const arrays[])[3] = {fluid->place, fluid->speed};
  const hid_t file = load ? H5Fopen("state.h5", H5F_ACC_RDONLY, H5P_DEFAULT)
                          : H5Fcreate("state.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(2, shape, NULL);
  int good = file >= 0;
  for (int i = 0; i < 2 && good; ++i) {
    const hid_t data =
        load ? H5Dopen2(file, names[i], H5P_DEFAULT)
             : H5Dcreate2(file, names[i], H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (load && data >= 0) {
      const hid_t found = H5Dget_space(data);
      good = H5Sget_simple_extent_npoints(found) == 3 * kAtoms;
      H5Sclose(found);
    }
    good = good && data >= 0 &&
           (load ? H5Dread(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, arrays[i])
                 : H5Dwrite(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, arrays[i])) >= 0;
    if (data >= 0) {
      H5Dclose(data);
    }
  }
  H5Sclose(space);
  return file >= 0 && H5Fclose(file) >= 0 && good;
}

static int run(Fluid* fluid, int steps) {
  FILE* log = fopen("energy.txt", "a");
  find_forces(fluid);
  const double begin = fluid->potential + kinetic(fluid);
  for (int step = 0; step < steps && log != NULL; ++step) {
    for (int i = 0; i < kAtoms; ++i) {
      for (int axis = 0; axis < 3; ++axis) {
        fluid->speed[i][axis] += fluid->force[i][axis] * kStep / 2;
        fluid->place[i][axis] += fluid->speed[i][axis] * kStep;
      }
    }
    find_forces(fluid);
    for (int i = 0; i < kAtoms; ++i) {
      for (int axis = 0; axis < 3; ++axis) {
        fluid->speed[i][axis] += fluid->force[i][axis] * kStep / 2;
      }
    }
    if (step % kEvery == kEvery - 1) {
      fprintf(log, "%.8f %.8f\n", fluid->potential + kinetic(fluid), kinetic(fluid));
      fflush(log);
    }
  }
  const double end = fluid->potential + kinetic(fluid);
  if (log == NULL || fclose(log) != 0 || !transfer(fluid, 0)) {
    return 1;
  }
  return fabs(end - begin) < 0.05 * fabs(begin) ? 0 : 4;
}

static int mean(void) {
  FILE* log = fopen("energy.txt", "r");
  static double rows[10000][2];
  double sums[2] = {0, 0};
  int count = 0;
  while (log != NULL && count < 10000 && fscanf(log, "%lf %lf", &rows[count][0], &rows[count][1]) == 2) {
    ++count;
  }
  if (log == NULL || !feof(log) || count == 0) {
    fprintf(stderr, "particles: energy.txt makes no sense after line %d\n", count);
    return 2;
  }
  for (int i = count / 2; i < count; ++i) {
    sums[0] += rows[i][0] / (count - count / 2);
    sums[1] += rows[i][1] / (count - count / 2);
  }
  printf("total %.5f\nkinetic %.5f\n", sums[0], sums[1]);
  return 0;
}

int main(int count, char** words) {
  static Fluid fluid;
  if (count == 2 && strcmp(words[1], "mean") == 0) {
    return mean();
  }
  if (count == 3 && strcmp(words[1], "start") == 0) {
    make(&fluid);
    return run(&fluid, atoi(words[2]));
  }
  if (count == 3 && strcmp(words[1], "go-on") == 0) {
    if (!transfer(&fluid, 1)) {
      fprintf(stderr, "particles: state.h5 cannot be read\n");
      return 2;
    }
    return run(&fluid, atoi(words[2]));
  }
  fprintf(stderr, "use: particles start|go-on STEPS, or particles mean\n");
  return 1;
}
