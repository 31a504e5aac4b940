package com.example;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class ShopIT {
    @Test
    void opens() {
        assertEquals(3, Cart.sum(1, 2));
    }

    @Test
    void closes() {
        assertEquals(4, Cart.sum(1, 2));
    }
}
