/* SPDX-License-Identifier: BSD-3-Clause */
/* A picture of a machine: what topo_plot.c and topo_plot_boxes.c share. Units: pixels. */
#ifndef SIM_CLI_TOPO_PLOT_H
#define SIM_CLI_TOPO_PLOT_H

#include "sim/cli/topo/topo.h"

enum {
	PICTURE_LEFT = 150, /* start of the first column; labels of lanes are left of it */
	PICTURE_COLUMN = 78,
	PICTURE_RIGHT = 30,
	PICTURE_LEAST = 640, /* minimum width */
	PICTURE_TOP = 70,
	PICTURE_BAR = 26,
	PICTURE_LEVEL = 62, /* distance between bars */
	PICTURE_BOX = 46,   /* height of a GPU or NIC */
	PICTURE_FABRIC = 70,
	PICTURE_LANE = 78,
	PICTURE_NONE = -1,
};

struct picture {
	const struct topo_system *sys;
	const struct topo_element *e;
	int32_t n;
	int32_t *column; /* column of a GPU or NIC; others: PICTURE_NONE */
	int32_t *first, *last;
	int32_t *depth;
	int32_t columns, deepest;
	bool mesh; /* has NVLinks between GPUs */
	int leaves_y, fabric_y, lanes_y, width;
	FILE *out;
};

/* topo_plot.c: left edge of a column, top of the bar of a switch or CPU; true for a GPU or NIC. */
int picture_x(int32_t column);
int picture_bar_y(const struct picture *p, int32_t node);
bool picture_is_leaf(const struct topo_element *e);

/* topo_plot_boxes.c */
void picture_label(const struct picture *p, int x, int y, const char *class, const char *text);
/* Shortens the name of a NIC, so that it fits into a column. */
void picture_nic_name(const char *name, char out[TOPO_NIC_NAME]);
void picture_boxes(const struct picture *p);
void picture_switch(const struct picture *p);
void picture_mesh(const struct picture *p);
void picture_cpus(const struct picture *p);
void picture_mesh_label(const struct picture *p);

#endif
