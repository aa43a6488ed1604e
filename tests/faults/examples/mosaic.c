/* An image mosaic in stages that speak through FITS files, after the astronomy pipelines of fault studies.
 *   mosaic project    six overlapping images of one sky, each with a background of its own: p0.fits ... p5.fits
 *   mosaic fit        a plane through the difference of each overlapping pair: fits.txt
 *   mosaic correct    images without their backgrounds: c0.fits ... c5.fits
 *   mosaic add        their mean: mosaic.fits; its least, mean and greatest pixel on standard output
 * Exit status 2: a file cannot be read or makes no sense. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kImages = 6, kWidth = 96, kHeight = 96, kStep = 56, kBlock = 2880, kSky = kStep * (kImages - 1) + kWidth };
static const double kFar = 160; /* a star adds less than half an ulp from here on */
typedef struct {
  float pixels[kHeight * kWidth];
} Image;

static void fail(const char* what, const char* path) {
  fprintf(stderr, "mosaic: %s: %s\n", path, what);
  exit(2);
}

static void write_fits(const char* path, const float* pixels, int height, int width) {
  char header[kBlock];
  const int count = height * width;
  const size_t size = ((size_t)count * 4 + kBlock - 1) / kBlock * kBlock;
  unsigned char* data = calloc(size, 1);
  FILE* file = fopen(path, "wb");
  char card[81];
  memset(header, ' ', sizeof header);
  const char* const formats[] = {"SIMPLE  = %20s", "BITPIX  = %20s", "NAXIS   = %20s"};
  const char* const values[] = {"T", "-32", "2"};
  for (int i = 0; i < 3; ++i) {
    memcpy(header + 80 * i, card, (size_t)snprintf(card, sizeof card, formats[i], values[i]));
  }
  memcpy(header + 240, card, (size_t)snprintf(card, sizeof card, "NAXIS1  = %20d", width));
  memcpy(header + 320, card, (size_t)snprintf(card, sizeof card, "NAXIS2  = %20d", height));
  memcpy(header + 400, "END", 3);
  if (file == NULL || data == NULL) {
    fail("cannot be made", path);
  }
  for (int i = 0; i < count; ++i) {
    uint32_t bits = 0;
    memcpy(&bits, pixels + i, 4);
    for (int byte = 0; byte < 4; ++byte) {
      data[4 * i + byte] = (unsigned char)(bits >> (24 - 8 * byte));
    }
  }
  if (fwrite(header, sizeof header, 1, file) != 1 || fwrite(data, size, 1, file) != 1 || fclose(file) != 0) {
    fail("cannot be written", path);
  }
  free(data);
}

static int card_value(const char* header, const char* key) {
  for (int i = 0; i < kBlock / 80; ++i) {
    if (strncmp(header + 80 * i, key, strlen(key)) == 0 && header[80 * i + 8] == '=') {
      return atoi(header + 80 * i + 9);
    }
  }
  return -1;
}

static void read_fits(const char* path, Image* image) {
  char header[kBlock + 1] = {0};
  FILE* file = fopen(path, "rb");
  if (file == NULL || fread(header, kBlock, 1, file) != 1) {
    fail("cannot be read", path);
  }
  if (strncmp(header, "SIMPLE  =                    T", 30) != 0 || card_value(header, "BITPIX  ") != -32 ||
      card_value(header, "NAXIS1  ") != kWidth || card_value(header, "NAXIS2  ") != kHeight) {
    fail("is no image of this survey", path);
  }
  for (int i = 0; i < kHeight * kWidth; ++i) {
    unsigned char bytes[4];
    if (fread(bytes, 4, 1, file) != 1) {
      fail("is too short", path);
    }
    const uint32_t bits =
        (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | (uint32_t)bytes[3];
    memcpy(image->pixels + i, &bits, 4);
  }
  fclose(file);
}

static const char* name(char kind, int number) {
  static char text[16];
  snprintf(text, sizeof text, "%c%d.fits", kind, number);
  return text;
}

static double sky(int y, int x) {
  double value = 100 + 5 * sin(x / 40.0) * cos(y / 30.0);
  for (int star = 0; star < 60; ++star) {
    const double dy = y - (star * 37 % kHeight);
    const double dx = x - (star * 101 % kSky);
    const double squared = dx * dx + dy * dy;
    value += squared < kFar ? (200 + 50 * (star % 7)) * exp(-squared / 4) : 0;
  }
  return value;
}

static void project(void) {
  for (int i = 0; i < kImages; ++i) {
    static Image image;
    for (int p = 0; p < kHeight * kWidth; ++p) {
      const int y = p / kWidth;
      const int x = p % kWidth;
      image.pixels[p] = (float)(sky(y, x + i * kStep) + 7 * i + 0.02 * (i - 2) * x - 0.01 * i * y);
    }
    write_fits(name('p', i), image.pixels, kHeight, kWidth);
  }
}

/* Solves three equations by Gauss elimination. */
static void solve(double a[3][4], double* out) {
  for (int row = 0; row < 3; ++row) {
    for (int below = row + 1; below < 3; ++below) {
      const double factor = a[below][row] / a[row][row];
      for (int column = row; column < 4; ++column) {
        a[below][column] -= factor * a[row][column];
      }
    }
  }
  for (int row = 2; row >= 0; --row) {
    out[row] = a[row][3];
    for (int column = row + 1; column < 3; ++column) {
      out[row] -= a[row][column] * out[column];
    }
    out[row] /= a[row][row];
  }
}

static void fit(void) {
  static Image left;
  static Image right;
  FILE* file = fopen("fits.txt", "w");
  for (int i = 0; file != NULL && i + 1 < kImages; ++i) {
    double equations[3][4] = {{0}};
    double plane[3];
    read_fits(name('p', i), &left);
    read_fits(name('p', i + 1), &right);
    for (int y = 0; y < kHeight; ++y) {
      for (int x = kStep; x < kWidth; ++x) { /* coordinates of the left image */
        const double terms[3] = {1, x, y};
        const double difference = right.pixels[y * kWidth + x - kStep] - left.pixels[y * kWidth + x];
        for (int row = 0; row < 3; ++row) {
          for (int column = 0; column < 3; ++column) {
            equations[row][column] += terms[row] * terms[column];
          }
          equations[row][3] += terms[row] * difference;
        }
      }
    }
    solve(equations, plane);
    fprintf(file, "%d %.9g %.9g %.9g\n", i + 1, plane[0], plane[1], plane[2]);
  }
  if (file == NULL || fclose(file) != 0) {
    fail("cannot be written", "fits.txt");
  }
}

static void correct(void) {
  static Image image;
  FILE* file = fopen("fits.txt", "r");
  double base = 0; /* the background of this image over that of the first, at its origin */
  double slope_x = 0;
  double slope_y = 0;
  for (int i = 0; i < kImages; ++i) {
    double plane[3] = {0, 0, 0};
    int number = 0;
    if (file == NULL ||
        (i > 0 && (fscanf(file, "%d %lf %lf %lf", &number, plane, plane + 1, plane + 2) != 4 || number != i))) {
      fail("makes no sense", "fits.txt");
    }
    base += slope_x * (i > 0 ? kStep : 0) + plane[0] + plane[1] * kStep;
    slope_x += plane[1];
    slope_y += plane[2];
    read_fits(name('p', i), &image);
    for (int p = 0; p < kHeight * kWidth; ++p) {
      image.pixels[p] = (float)(image.pixels[p] - base - slope_x * (p % kWidth) - slope_y * (p / kWidth));
    }
    write_fits(name('c', i), image.pixels, kHeight, kWidth);
  }
  fclose(file);
}

static void add(void) {
  static Image image;
  static double sum[kHeight * kSky];
  static int weight[kHeight * kSky];
  static float mosaic[kHeight * kSky];
  double least = INFINITY;
  double most = -INFINITY;
  double mean = 0;
  for (int i = 0; i < kImages; ++i) {
    read_fits(name('c', i), &image);
    for (int p = 0; p < kHeight * kWidth; ++p) {
      const int at = p / kWidth * kSky + p % kWidth + i * kStep;
      sum[at] += image.pixels[p];
      ++weight[at];
    }
  }
  for (int at = 0; at < kHeight * kSky; ++at) {
    mosaic[at] = (float)(sum[at] / weight[at]);
    least = fmin(least, mosaic[at]);
    most = fmax(most, mosaic[at]);
    mean += mosaic[at] / (kHeight * kSky);
  }
  write_fits("mosaic.fits", mosaic, kHeight, kSky);
  printf("least %.5g\nmean %.5g\ngreatest %.5g\n", least, mean, most);
}

int main(int count, char** words) {
  const struct {
    const char* word;
    void (*stage)(void);
  } stages[] = {{"project", project}, {"fit", fit}, {"correct", correct}, {"add", add}};
  for (size_t i = 0; i < sizeof stages / sizeof *stages; ++i) {
    if (count == 2 && strcmp(words[1], stages[i].word) == 0) {
      stages[i].stage();
      return 0;
    }
  }
  fprintf(stderr, "use: mosaic project|fit|correct|add\n");
  return 1;
}
