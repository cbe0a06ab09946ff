"""The categories of Amazon-Reviews-2023: command-line label -> file name."""

CATEGORIES: dict[str, str] = {
    "all_beauty": "All_Beauty",
    "amazon_fashion": "Amazon_Fashion",
    "appliances": "Appliances",
    "arts_crafts_and_sewing": "Arts_Crafts_and_Sewing",
    "automotive": "Automotive",
    "baby_products": "Baby_Products",
    "beauty": "Beauty_and_Personal_Care",
    "books": "Books",
    "cds_and_vinyl": "CDs_and_Vinyl",
    "cell_phones_and_accessories": "Cell_Phones_and_Accessories",
    "clothing_shoes_and_jewelry": "Clothing_Shoes_and_Jewelry",
    "digital_music": "Digital_Music",
    "electronics": "Electronics",
    "gift_cards": "Gift_Cards",
    "grocery_and_gourmet_food": "Grocery_and_Gourmet_Food",
    "handmade_products": "Handmade_Products",
    "health_and_household": "Health_and_Household",
    "health_and_personal_care": "Health_and_Personal_Care",
    "home_and_kitchen": "Home_and_Kitchen",
    "industrial_and_scientific": "Industrial_and_Scientific",
    "kindle_store": "Kindle_Store",
    "magazine_subscriptions": "Magazine_Subscriptions",
    "movies_and_tv": "Movies_and_TV",
    "musical_instruments": "Musical_Instruments",
    "office_products": "Office_Products",
    "patio_lawn_and_garden": "Patio_Lawn_and_Garden",
    "pet_supplies": "Pet_Supplies",
    "software": "Software",
    "sports_and_outdoors": "Sports_and_Outdoors",
    "subscription_boxes": "Subscription_Boxes",
    "tools_and_home_improvement": "Tools_and_Home_Improvement",
    "toys_and_games": "Toys_and_Games",
    "video_games": "Video_Games",
}

_LABELS = {name: label for label, name in CATEGORIES.items()}


def label_of(name: str) -> str:
    """What `category=` calls a category; a category of one's own has its name alone."""
    return _LABELS.get(name, name)
